BEGIN TRANSACTION;
CREATE TABLE bulk_answers (
	run_no INTEGER NOT NULL, 
	model_no INTEGER NOT NULL, 
	row_no BIGINT NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	digest VARCHAR(16) NOT NULL, 
	sent_at BIGINT NOT NULL, 
	estimate_usd TEXT, 
	answer TEXT, 
	alike VARCHAR(16), 
	error TEXT, 
	error_class VARCHAR(80), 
	retryable BOOLEAN, 
	cost_usd TEXT, 
	cost_status VARCHAR(10), 
	input_tokens BIGINT, 
	output_tokens BIGINT, 
	cached_input_tokens BIGINT, 
	cache_creation_input_tokens BIGINT, 
	ms BIGINT, 
	tries INTEGER, 
	CONSTRAINT bulk_answers_in_order PRIMARY KEY (run_no, model_no, row_no)
);
INSERT INTO "bulk_answers" VALUES(1,0,0,'answered','3fc3e9f155167165',1795845472787500,'0.001290','re: question 0','2ad902976619d46d',NULL,NULL,0,'0.001500','priced',1000,100,0,0,3,1);
INSERT INTO "bulk_answers" VALUES(1,0,1,'failed','5e73dc619c1fea55',1795845472787842,'0.001290',NULL,NULL,'anthropic: a invalid_request_error (status 400, code invalid_request_error)','invalid_request',0,NULL,'unpriced',NULL,NULL,NULL,NULL,3,1);
INSERT INTO "bulk_answers" VALUES(1,0,2,'answered','d21b76c6138163cf',1795845472787961,'0.001290','re: question 2','550b1613a6133ab8',NULL,NULL,0,'0.001500','priced',1000,100,0,0,3,1);
INSERT INTO "bulk_answers" VALUES(1,0,3,'in_flight','de7de79ffb2b0ab0',1763712000000000,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
CREATE TABLE bulk_batches (
	run_no INTEGER NOT NULL, 
	model_no INTEGER NOT NULL, 
	batch_no INTEGER NOT NULL, 
	handle TEXT NOT NULL, 
	fetched BOOLEAN NOT NULL, 
	CONSTRAINT bulk_batches_in_order PRIMARY KEY (run_no, model_no, batch_no)
);
CREATE TABLE bulk_lost (
	run_no INTEGER NOT NULL, 
	model_no INTEGER NOT NULL, 
	row_no BIGINT NOT NULL, 
	sent_at BIGINT NOT NULL, 
	why VARCHAR(10) NOT NULL, 
	estimate_usd TEXT, 
	CONSTRAINT bulk_lost_in_order PRIMARY KEY (run_no, model_no, row_no, sent_at)
);
CREATE TABLE bulk_runs (
	run_no INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	version INTEGER NOT NULL, 
	asked TEXT NOT NULL, 
	models TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (run_no), 
	UNIQUE (name)
);
INSERT INTO "bulk_runs" VALUES(1,'bulk',1,'{"prompt": null, "system": null, "options": "7ebb3c7c2a87b1a2f8a7ed729ecb040d"}','["anthropic:claude-haiku-4-5"]',1795845472767392);
CREATE INDEX bulk_answers_by_state ON bulk_answers (run_no, model_no, state);
COMMIT;
