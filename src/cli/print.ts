import { printableJson } from './text.ts';

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

export function printJson(value: unknown): void {
  print(printableJson(value, 2));
}
