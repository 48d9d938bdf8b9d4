CREATE TABLE attempts (
    id character varying(200) NOT NULL,
    session_id character varying(200) NOT NULL,
    seq bigint NOT NULL,
    role text NOT NULL,
    content_json text NOT NULL,
    metadata_json text NOT NULL,
    fields_json text,
    created_at bigint NOT NULL,
    schema_version integer NOT NULL,
    status text NOT NULL,
    stop_reason text,
    model text,
    provider text,
    user_id text,
    team_id text,
    input_tokens bigint,
    output_tokens bigint,
    cached_input_tokens bigint,
    cache_creation_input_tokens bigint,
    reasoning_tokens bigint,
    cost_usd numeric,
    cost_status text,
    pricing_version text,
    latency_ms bigint
);
CREATE TABLE dragoman_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE messages (
    id character varying(200) NOT NULL,
    session_id character varying(200) NOT NULL,
    seq bigint NOT NULL,
    role text NOT NULL,
    content_json text NOT NULL,
    metadata_json text NOT NULL,
    fields_json text,
    created_at bigint NOT NULL,
    schema_version integer NOT NULL,
    status text NOT NULL,
    stop_reason text,
    model text,
    provider text,
    user_id text,
    team_id text,
    input_tokens bigint,
    output_tokens bigint,
    cached_input_tokens bigint,
    cache_creation_input_tokens bigint,
    reasoning_tokens bigint,
    cost_usd numeric,
    cost_status text,
    pricing_version text,
    latency_ms bigint,
    extensions_json text,
    search_text text,
    inherited boolean NOT NULL
);
CREATE TABLE sessions (
    id character varying(200) NOT NULL,
    version bigint NOT NULL,
    next_seq bigint NOT NULL,
    active_model text,
    title text,
    workspace_path text,
    routing_policy_json text,
    metadata_json text,
    user_id character varying(200),
    team_id character varying(200),
    parent_session_id character varying(200),
    parent_message_id character varying(200),
    schema_version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE tool_calls (
    session_id character varying(200) NOT NULL,
    seq bigint NOT NULL,
    "position" integer NOT NULL,
    id text NOT NULL,
    message_id character varying(200) NOT NULL,
    result_message_id character varying(200),
    name text NOT NULL,
    status text NOT NULL,
    provider_id text,
    provider text,
    created_at bigint NOT NULL,
    completed_at bigint
);
CREATE TABLE tool_ids (
    number bigint NOT NULL,
    session_id character varying(200) NOT NULL,
    entry character varying(32) NOT NULL,
    kind character varying(6) NOT NULL,
    provider text NOT NULL,
    canonical_id text NOT NULL,
    provider_id text NOT NULL
);
CREATE SEQUENCE tool_ids_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE tool_ids_number_seq OWNED BY tool_ids.number;
ALTER TABLE ONLY tool_ids ALTER COLUMN number SET DEFAULT nextval('tool_ids_number_seq'::regclass);
INSERT INTO attempts VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0007', 'sess_first', 0, 'assistant', '[]', '{"model":"anthropic:claude-opus-5-5","provider":"anthropic","usage":{"input_tokens":8,"output_tokens":42,"cached_input_tokens":100,"cache_creation_input_tokens":7,"reasoning_tokens":30,"server_tools":{},"unread":[],"cost_usd":"0.000654","cost_status":"priced","unpriced":[],"pricing_version":"2026-11-01/abc","latency_ms":1234},"status":"error","stop_reason":"tool_use","provider_raw":{"sealed_prefix":{"frame":"9f2c","length":12,"items":"aa01"}},"user_id":"usr_1","team_id":"team_1","critical":false}', NULL, 1795248007123456, 1, 'error', 'tool_use', 'anthropic:claude-opus-5-5', 'anthropic', 'usr_1', 'team_1', 8, 42, 100, 7, 30, 0.000654, 'priced', '2026-11-01/abc', 1234);
INSERT INTO dragoman_version VALUES ('0002');
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0001', 'sess_first', 0, 'user', '[{"type":"text","text":"Lies die Datei auf der Straße 😀 \u0000 天気","citations":[]}]', '{"status":"complete","critical":false}', NULL, 1795248001123456, 1, 'complete', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"labels":["secret"]}', 'lies die datei auf der strasse 😀   天気', false);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0002', 'sess_first', 1, 'assistant', '[{"type":"thinking","text":"Read it.","signature":"EqQB"},{"type":"tool_use","id":"tu_01M7YJFK7P2ZFT4X2CGGZPP000","name":"read_file","input":{"path":"a.txt","n":[1,2.5,null]}}]', '{"model":"anthropic:claude-opus-5-5","provider":"anthropic","usage":{"input_tokens":8,"output_tokens":42,"cached_input_tokens":100,"cache_creation_input_tokens":7,"reasoning_tokens":30,"server_tools":{},"unread":[],"cost_usd":"0.000654","cost_status":"priced","unpriced":[],"pricing_version":"2026-11-01/abc","latency_ms":1234},"status":"complete","stop_reason":"tool_use","provider_raw":{"sealed_prefix":{"frame":"9f2c","length":12,"items":"aa01"}},"user_id":"usr_1","team_id":"team_1","critical":false}', NULL, 1795248002123456, 1, 'complete', 'tool_use', 'anthropic:claude-opus-5-5', 'anthropic', 'usr_1', 'team_1', 8, 42, 100, 7, 30, 0.000654, 'priced', '2026-11-01/abc', 1234, NULL, NULL, false);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0003', 'sess_first', 2, 'tool', '[{"type":"tool_result","tool_use_id":"tu_01M7YJFK7P2ZFT4X2CGGZPP000","content":[{"type":"text","text":"contents","citations":[]}],"is_error":false}]', '{"parent_tool_use_id":"tu_01M7YJFK7P2ZFT4X2CGGZPP000","status":"complete","critical":false}', NULL, 1795248003123456, 1, 'complete', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'contents', false);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0004', 'sess_first', 3, 'assistant', '[{"type":"text","text":"Done.","citations":[]}]', '{"model":"anthropic:claude-opus-5-5","provider":"anthropic","usage":{"input_tokens":8,"output_tokens":42,"cached_input_tokens":100,"cache_creation_input_tokens":7,"reasoning_tokens":30,"server_tools":{},"unread":[],"cost_usd":"0.000654","cost_status":"priced","unpriced":[],"pricing_version":"2026-11-01/abc","latency_ms":1234},"status":"complete","stop_reason":"end_turn","provider_raw":{"sealed_prefix":{"frame":"9f2c","length":12,"items":"aa01"}},"user_id":"usr_1","team_id":"team_1","critical":false}', NULL, 1795248004123456, 1, 'complete', 'end_turn', 'anthropic:claude-opus-5-5', 'anthropic', 'usr_1', 'team_1', 8, 42, 100, 7, 30, 0.000654, 'priced', '2026-11-01/abc', 1234, NULL, 'done.', false);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0005', 'sess_first', 4, 'assistant', '[{"type":"hologram","frames":[{"z":1}]},{"type":"tool_use","id":"tu_01M7YJFK7P2ZFT4X2CGGZPP001","name":"run","input":{},"urgent":true}]', '{"model":"anthropic:claude-opus-5-5","provider":"anthropic","status":"complete","critical":false,"karma":7}', '{"mood":{"deep":[1]}}', 1795248005123456, 1, 'complete', NULL, 'anthropic:claude-opus-5-5', 'anthropic', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0006', 'sess_first', 5, 'assistant', '[{"type":"text","text":"Half a sen","citations":[]}]', '{"model":"anthropic:claude-opus-5-5","provider":"anthropic","usage":{"input_tokens":8,"output_tokens":42,"cached_input_tokens":100,"cache_creation_input_tokens":7,"reasoning_tokens":30,"server_tools":{},"unread":[],"cost_usd":"0.000654","cost_status":"priced","unpriced":[],"pricing_version":"2026-11-01/abc","latency_ms":1234},"status":"cancelled","provider_raw":{"sealed_prefix":{"frame":"9f2c","length":12,"items":"aa01"}},"user_id":"usr_1","team_id":"team_1","critical":false}', NULL, 1795248006123456, 1, 'cancelled', NULL, 'anthropic:claude-opus-5-5', 'anthropic', 'usr_1', 'team_1', 8, 42, 100, 7, 30, 0.000654, 'priced', '2026-11-01/abc', 1234, NULL, 'half a sen', false);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0001', 'sess_fork', 0, 'user', '[{"type":"text","text":"Lies die Datei auf der Straße 😀 \u0000 天気","citations":[]}]', '{"status":"complete","critical":false}', NULL, 1795248001123456, 1, 'complete', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"labels":["secret"]}', 'lies die datei auf der strasse 😀   天気', true);
INSERT INTO messages VALUES ('01M7YJFK7P2ZFT4X2CGGZQ0002', 'sess_fork', 1, 'assistant', '[{"type":"thinking","text":"Read it.","signature":"EqQB"},{"type":"tool_use","id":"tu_01M7YJFK7P2ZFT4X2CGGZPP000","name":"read_file","input":{"path":"a.txt","n":[1,2.5,null]}}]', '{"model":"anthropic:claude-opus-5-5","provider":"anthropic","usage":{"input_tokens":8,"output_tokens":42,"cached_input_tokens":100,"cache_creation_input_tokens":7,"reasoning_tokens":30,"server_tools":{},"unread":[],"cost_usd":"0.000654","cost_status":"priced","unpriced":[],"pricing_version":"2026-11-01/abc","latency_ms":1234},"status":"complete","stop_reason":"tool_use","provider_raw":{"sealed_prefix":{"frame":"9f2c","length":12,"items":"aa01"}},"user_id":"usr_1","team_id":"team_1","critical":false}', NULL, 1795248002123456, 1, 'complete', 'tool_use', 'anthropic:claude-opus-5-5', 'anthropic', 'usr_1', 'team_1', 8, 42, 100, 7, 30, 0.000654, 'priced', '2026-11-01/abc', 1234, NULL, NULL, true);
INSERT INTO sessions VALUES ('sess_first', 2, 6, 'openai:gpt-6.1-sol', 'Files', 'C:\\work', '{"rules":[]}', '{"tags":["a"]}', 'usr_1', 'team_1', NULL, NULL, 1, 1795248001000000, 1795248002000000);
INSERT INTO sessions VALUES ('sess_fork', 0, 2, 'openai:gpt-6.1-sol', 'Files', 'C:\\work', '{"rules":[]}', '{"tags":["a"]}', 'usr_1', 'team_1', 'sess_first', '01M7YJFK7P2ZFT4X2CGGZQ0002', 1, 1795248003000000, 1795248003000000);
INSERT INTO sessions VALUES ('sess_empty', 0, 0, NULL, NULL, NULL, NULL, '{}', NULL, NULL, NULL, NULL, 1, 1795248004000000, 1795248004000000);
INSERT INTO tool_calls VALUES ('sess_first', 1, 1, 'tu_01M7YJFK7P2ZFT4X2CGGZPP000', '01M7YJFK7P2ZFT4X2CGGZQ0002', '01M7YJFK7P2ZFT4X2CGGZQ0003', 'read_file', 'succeeded', 'toolu_01A09q90qw90lq917835lq9', 'anthropic', 1795248002123456, 1795248003123456);
INSERT INTO tool_calls VALUES ('sess_first', 4, 1, 'tu_01M7YJFK7P2ZFT4X2CGGZPP001', '01M7YJFK7P2ZFT4X2CGGZQ0005', NULL, 'run', 'pending', 'toolu_02', 'anthropic', 1795248005123456, NULL);
INSERT INTO tool_calls VALUES ('sess_fork', 1, 1, 'tu_01M7YJFK7P2ZFT4X2CGGZPP000', '01M7YJFK7P2ZFT4X2CGGZQ0002', NULL, 'read_file', 'pending', 'toolu_01A09q90qw90lq917835lq9', 'anthropic', 1795248002123456, NULL);
INSERT INTO tool_ids VALUES (1, 'sess_first', '91b98705049fb667195e48e49982f5b5', 'issued', 'anthropic', 'tu_01M7YJFK7P2ZFT4X2CGGZPP000', 'toolu_01A09q90qw90lq917835lq9');
INSERT INTO tool_ids VALUES (2, 'sess_first', '3b1768a40bcbd8d9f42bf05fad23ab79', 'issued', 'anthropic', 'tu_01M7YJFK7P2ZFT4X2CGGZPP001', 'toolu_02');
INSERT INTO tool_ids VALUES (3, 'sess_first', '3780f25fe29c8ba507a504e8677419fc', 'sent', 'openai', 'tu_01M7YJFK7P2ZFT4X2CGGZPP000', 'Xg8nIeRp3sNum1HbcG4yMAWF');
INSERT INTO tool_ids VALUES (4, 'sess_fork', '91b98705049fb667195e48e49982f5b5', 'issued', 'anthropic', 'tu_01M7YJFK7P2ZFT4X2CGGZPP000', 'toolu_01A09q90qw90lq917835lq9');
INSERT INTO tool_ids VALUES (5, 'sess_fork', '3b1768a40bcbd8d9f42bf05fad23ab79', 'issued', 'anthropic', 'tu_01M7YJFK7P2ZFT4X2CGGZPP001', 'toolu_02');
INSERT INTO tool_ids VALUES (6, 'sess_fork', '3780f25fe29c8ba507a504e8677419fc', 'sent', 'openai', 'tu_01M7YJFK7P2ZFT4X2CGGZPP000', 'Xg8nIeRp3sNum1HbcG4yMAWF');
SELECT pg_catalog.setval('tool_ids_number_seq', 6, true);
ALTER TABLE ONLY attempts
    ADD CONSTRAINT attempts_in_order PRIMARY KEY (session_id, seq);
ALTER TABLE ONLY dragoman_version
    ADD CONSTRAINT dragoman_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_in_order PRIMARY KEY (session_id, seq);
ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_once UNIQUE (session_id, id);
ALTER TABLE ONLY sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY tool_calls
    ADD CONSTRAINT tool_calls_in_order PRIMARY KEY (session_id, seq, "position");
ALTER TABLE ONLY tool_ids
    ADD CONSTRAINT tool_ids_once PRIMARY KEY (session_id, entry);
CREATE INDEX messages_by_time ON messages USING btree (session_id, created_at);
CREATE INDEX sessions_by_update ON sessions USING btree (updated_at, id);
CREATE INDEX sessions_by_user ON sessions USING btree (user_id, updated_at);
CREATE INDEX tool_calls_by_status ON tool_calls USING btree (session_id, status);
ALTER TABLE ONLY attempts
    ADD CONSTRAINT attempts_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
ALTER TABLE ONLY tool_calls
    ADD CONSTRAINT tool_calls_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
ALTER TABLE ONLY tool_ids
    ADD CONSTRAINT tool_ids_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
