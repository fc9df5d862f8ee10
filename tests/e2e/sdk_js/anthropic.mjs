// The official Anthropic SDK: one tool loop. usage: anthropic.mjs ROOT messages [stream]; prints the loop's story as JSON.
import Anthropic from '@anthropic-ai/sdk';

const [root, , mode] = process.argv.slice(2);
const client = new Anthropic({ baseURL: root, apiKey: 'k', maxRetries: 0 });
const input_schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [{ name: 'get_weather', description: 'Weather now', input_schema }];
const messages = [{ role: 'user', content: 'Weather in Oslo?' }];
const called = [];
for (let turn = 0; turn < 4; turn++) {
  const request = { model: 'm', max_tokens: 500, messages, tools };
  const message = mode === 'stream' ? await client.messages.stream(request).finalMessage() : await client.messages.create(request);
  const uses = message.content.filter((block) => block.type === 'tool_use');
  if (!uses.length) {
    const text = message.content.map((block) => block.text ?? '').join('');
    console.log(JSON.stringify({ text, finish: message.stop_reason, called }));
    break;
  }
  if (message.stop_reason !== 'tool_use') throw new Error(`stop_reason ${message.stop_reason}`);
  messages.push({ role: 'assistant', content: message.content });
  called.push(...uses.map((use) => [use.name, use.input]));
  messages.push({ role: 'user', content: uses.map((use) => ({ type: 'tool_result', tool_use_id: use.id, content: '4 degrees' })) });
}
