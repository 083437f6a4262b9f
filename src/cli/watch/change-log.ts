import type { HoldfastError } from '../../errors.ts';
import { print } from '../print.ts';
import { presentable } from '../report-error.ts';
import { printableJson } from '../text.ts';
import { Changes, changeLine } from './changes.ts';
import type { Scan, ScanListener } from './scanner.ts';

/** Prints a line for each change, for a pipe or a file: text, or JSON. */
export class ChangeLog implements ScanListener {
  readonly #isJson: boolean;
  readonly #changes = new Changes();
  #isOut = false;

  constructor(isJson: boolean) {
    this.#isJson = isJson;
  }

  onScan({ views, isTruncated }: Scan): void {
    if (this.#isOut) this.#print('back     the store answers again', { change: 'back' });
    this.#isOut = false;
    for (const change of this.#changes.next(views, isTruncated)) this.#print(changeLine(change), change);
  }

  onOutage(error: HoldfastError): void {
    if (this.#isOut) return;
    this.#isOut = true;
    const message = presentable(error.message).replace(/\s*\n\s*/g, ' ');
    this.#print(`outage   ${message}`, { change: 'outage', message });
  }

  #print(line: string, change: object): void {
    const at = new Date().toISOString();
    print(this.#isJson ? printableJson({ at, ...change }) : `${at}  ${line}`);
  }
}
