// `npm run models`: searches every state of the models in `models/` with Spin.
import { check, QUESTIONS } from '../models/check-models.ts';

process.env.HOLDFAST_INSTALL_SERVERS ??= '1';
let wrong = 0;
for (const question of QUESTIONS) {
  const { answer, states, violation } = await check(question);
  const isRight = answer === question.answer;
  if (!isRight) wrong += 1;
  const { model, asks, given } = question;
  const text = `${model}: ${asks} | ${given} | ${answer} | ${states.toLocaleString('en-US')} states`;
  console.log(`${isRight ? '' : 'UNEXPECTED '}${text}${violation === '' ? '' : ` | ${violation}`}`);
}
console.log(`${QUESTIONS.length} questions, ${wrong} unexpected answers`);
process.exitCode = wrong === 0 ? 0 : 1;
