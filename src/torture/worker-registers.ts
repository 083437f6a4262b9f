import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { RegisterReply, RegisterRequest } from './fenced-register.ts';

const WIDTH = 16;

/** A number in a file for each lock, read and written without any check. */
export class FileRegister {
  readonly #folder: string;
  readonly #files = new Map<string, number>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  read(lock: string): number {
    const buffer = Buffer.alloc(WIDTH);
    const length = readSync(this.#open(lock), buffer, 0, WIDTH, 0);
    return Number(buffer.toString('utf8', 0, length)) || 0;
  }

  write(lock: string, value: number): void {
    writeSync(this.#open(lock), String(value).padStart(WIDTH), 0);
  }

  #open(lock: string): number {
    const known = this.#files.get(lock);
    if (known !== undefined) return known;
    const path = join(this.#folder, lock);
    // `a+` creates it, but could only append.
    closeSync(openSync(path, 'a+'));
    const file = openSync(path, 'r+');
    this.#files.set(lock, file);
    return file;
  }
}

/** The register that checks fences, which is in the parent process. */
export class FencedRegisterClient {
  readonly #pending = new Map<number, (reply: RegisterReply) => void>();
  #count = 0;

  request(request: Omit<RegisterRequest, 'id'>): Promise<RegisterReply> {
    this.#count += 1;
    const id = this.#count;
    return new Promise((resolve) => {
      this.#pending.set(id, resolve);
      // A pending request keeps the process alive; the channel by itself does not.
      process.channel?.ref();
      process.send?.({ id, ...request });
    });
  }

  onReply(reply: RegisterReply): void {
    this.#pending.get(reply.id)?.(reply);
    this.#pending.delete(reply.id);
    if (this.#pending.size === 0) process.channel?.unref();
  }
}
