// One library of npm as a client: node libraries.mjs CASE, with BASE, MODEL and perhaps KEY in the environment.
import { z } from 'zod';
const { BASE, MODEL, KEY = 'none' } = process.env;
const PROMPT = 'What is the weather in Oslo?';
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };

async function aiSdk(model) {
  const { generateText, streamText, tool, stepCountIs } = await import('ai');
  const execute = async ({ city }) => `sunny in ${city}`;
  const tools = { get_weather: tool({ description: 'Weather', inputSchema: z.object({ city: z.string() }), execute }) };
  const asked = { model, prompt: PROMPT, tools, stopWhen: stepCountIs(4), maxRetries: 0 };
  const whole = (await generateText(asked)).text;
  let failed;
  const stream = streamText({ ...asked, onError: ({ error }) => { failed = error; } });
  let text = '';
  for await (const part of stream.fullStream) if (part.type === 'text-delta') text += part.text;
  if (failed) throw failed;
  if (!text.endsWith(whole)) throw new Error(`whole ${whole}, streamed ${text}`);
  return whole;
}

const cases = {
  async 'openai-js-chat'() {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 0 });
    const runner = client.chat.completions.runTools({
      model: MODEL, stream: true, messages: [{ role: 'user', content: PROMPT }],
      tools: [{ type: 'function', function: {
        name: 'get_weather', description: 'Weather', parameters: schema, parse: JSON.parse, function: async () => 'sunny' } }],
    });
    return runner.finalContent();
  },
  async 'openai-js-responses'() {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 0 });
    const tools = [{ type: 'function', name: 'get_weather', parameters: schema, strict: true }];
    const first = client.responses.stream({ model: MODEL, input: PROMPT, tools });
    const { output } = await first.finalResponse();
    const call = output.find((item) => item.type === 'function_call');
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'sunny' };
    const strip = ({ parsed_arguments, ...item }) => item;
    const input = [{ role: 'user', content: PROMPT }, ...output.map(strip), result];
    return (await client.responses.stream({ model: MODEL, input, tools }).finalResponse()).output_text;
  },
  async 'anthropic-js-messages'() {
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 });
    const tools = [{ name: 'get_weather', input_schema: schema }];
    const messages = [{ role: 'user', content: PROMPT }];
    const ask = () => client.messages.stream({ model: MODEL, max_tokens: 100, messages, tools }).finalMessage();
    const { content } = await ask();
    const call = content.find((block) => block.type === 'tool_use');
    if (call.input.city !== 'Oslo') throw new Error(JSON.stringify(call.input));
    messages.push({ role: 'assistant', content });
    messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }] });
    return (await ask()).content.map((block) => block.text ?? '').join('');
  },
  async 'ai-sdk-chat'() {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    return aiSdk(createOpenAICompatible({ name: 'gateway', baseURL: `${BASE}/v1`, apiKey: KEY })(MODEL));
  },
  async 'ai-sdk-responses'() {
    const { createOpenAI } = await import('@ai-sdk/openai');
    return aiSdk(createOpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY })(MODEL));
  },
  async 'ai-sdk-messages'() {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    return aiSdk(createAnthropic({ baseURL: `${BASE}/v1`, apiKey: KEY })(MODEL));
  },
  async 'google-js-google'() {
    const { GoogleGenAI } = await import('@google/genai');
    const ai = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: BASE } });
    const config = { tools: [{ functionDeclarations: [{ name: 'get_weather', parametersJsonSchema: schema }] }] };
    const contents = [{ role: 'user', parts: [{ text: PROMPT }] }];
    const ask = async () => {
      const parts = [];
      for await (const chunk of await ai.models.generateContentStream({ model: MODEL, contents, config }))
        parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
      return parts;
    };
    const parts = await ask();
    const { id, name, args } = parts.find((part) => part.functionCall).functionCall;
    if (args.city !== 'Oslo') throw new Error(JSON.stringify(args));
    contents.push({ role: 'model', parts });
    contents.push({ role: 'user', parts: [{ functionResponse: { id, name, response: { result: 'sunny' } } }] });
    return (await ask()).map((part) => part.text ?? '').join('');
  },
  async 'ollama-js-ollama'() {
    const { Ollama } = await import('ollama');
    const client = new Ollama({ host: BASE });
    const tools = [{ type: 'function', function: { name: 'get_weather', description: 'Weather', parameters: schema } }];
    const messages = [{ role: 'user', content: PROMPT }];
    const ask = async () => {
      const whole = { role: 'assistant', content: '', tool_calls: [] };
      for await (const { message } of await client.chat({ model: MODEL, messages, tools, stream: true })) {
        whole.content += message.content;
        whole.tool_calls.push(...(message.tool_calls ?? []));
      }
      return whole;
    };
    const first = await ask();
    if (first.tool_calls[0].function.arguments.city !== 'Oslo') throw new Error(JSON.stringify(first));
    messages.push(first, { role: 'tool', tool_name: 'get_weather', content: 'sunny' });
    return (await ask()).content;
  },
};

console.log(await cases[process.argv[2]]());
