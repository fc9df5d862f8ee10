// The AI SDK over five providers: one tool loop. usage: ai_sdk.mjs ROOT compatible|chat|responses|open|messages [stream]; prints the loop's story as JSON.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenResponses } from '@ai-sdk/open-responses';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const [root, api, mode] = process.argv.slice(2);
globalThis.AI_SDK_LOG_WARNINGS = false;
const settings = { baseURL: `${root}/v1`, apiKey: 'k' };
const model = {
  compatible: () => createOpenAICompatible({ name: 'any', includeUsage: true, ...settings })('m'),
  chat: () => createOpenAI(settings).chat('m'),
  responses: () => createOpenAI(settings).responses('m'),
  open: () => createOpenResponses({ name: 'any', url: `${root}/v1/responses`, apiKey: 'k' })('m'),
  messages: () => createAnthropic(settings)('m'),
}[api]();
const called = [];
const get_weather = tool({
  description: 'Weather now',
  inputSchema: z.object({ city: z.string() }),
  execute: async (input) => {
    called.push(['get_weather', input]);
    return '4 degrees';
  },
});
const request = { model, tools: { get_weather }, stopWhen: stepCountIs(3), prompt: 'Weather in Oslo?', maxRetries: 0 };
let text, finish;
if (mode === 'stream') {
  const failures = [];
  const result = streamText({ ...request, onError: ({ error }) => failures.push(error) });
  for await (const _ of result.textStream);
  if (failures.length) throw failures[0];
  [text, finish] = [await result.text, await result.finishReason];
} else {
  const result = await generateText(request);
  [text, finish] = [result.text, result.finishReason];
}
console.log(JSON.stringify({ text, finish, called }));
