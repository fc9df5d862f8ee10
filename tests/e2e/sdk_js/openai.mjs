// The official OpenAI SDK: one tool loop. usage: openai.mjs ROOT chat|responses [stream]; prints the loop's story as JSON.
import OpenAI from 'openai';

const [root, api, mode] = process.argv.slice(2);
const stream = mode === 'stream';
const client = new OpenAI({ baseURL: `${root}/v1`, apiKey: 'k', maxRetries: 0 });
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const about = { name: 'get_weather', description: 'Weather now', parameters };
const called = [];
const question = 'Weather in Oslo?';

async function chat() {
  const messages = [{ role: 'user', content: question }];
  const tools = [{ type: 'function', function: about }];
  for (let turn = 0; turn < 4; turn++) {
    const request = { model: 'm', messages, tools };
    const { message, finish_reason: finish } = stream
      ? (await client.chat.completions.stream(request).finalChatCompletion()).choices[0]
      : (await client.chat.completions.create(request)).choices[0];
    if (!message.tool_calls?.length) return { text: message.content, finish };
    if (finish !== 'tool_calls') throw new Error(`finish_reason ${finish}`);
    messages.push({ role: 'assistant', content: message.content, tool_calls: message.tool_calls });
    for (const call of message.tool_calls) {
      called.push([call.function.name, JSON.parse(call.function.arguments)]);
      messages.push({ role: 'tool', tool_call_id: call.id, content: '4 degrees' });
    }
  }
}

async function responses() {
  const input = [{ role: 'user', content: question }];
  const tools = [{ type: 'function', ...about, strict: false }];
  for (let turn = 0; turn < 4; turn++) {
    const request = { model: 'm', input, tools };
    const response = stream ? await client.responses.stream(request).finalResponse() : await client.responses.create(request);
    const calls = response.output.filter((item) => item.type === 'function_call');
    if (!calls.length) return { text: response.output_text, finish: response.status };
    for (const item of response.output) {
      const { parsed_arguments, ...plain } = item;
      input.push(plain);
    }
    for (const call of calls) {
      called.push([call.name, JSON.parse(call.arguments)]);
      input.push({ type: 'function_call_output', call_id: call.call_id, output: '4 degrees' });
    }
  }
}

console.log(JSON.stringify({ ...(await { chat, responses }[api]()), called }));
