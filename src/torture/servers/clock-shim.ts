import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from './find.ts';

/**
 * Moves the wall clock of one process by seconds that are read from a mapped file; timers are not
 * affected.
 */
const SOURCE = `#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long *offset;
static long shift(void) {
  if (!offset) {
    const char *path = getenv("HOLDFAST_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    static long none = 0;
    offset = map == MAP_FAILED ? &none : map;
  }
  return *offset;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
  return result;
}
int gettimeofday(struct timeval *time, void *zone) {
  int result = syscall(SYS_gettimeofday, time, zone);
  if (result == 0) time->tv_sec += shift();
  return result;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
`;

export interface ClockShim {
  /** The environment of the server whose clock is moved. */
  readonly env: NodeJS.ProcessEnv;
  /** By how many seconds its wall clock differs from now on. */
  set(seconds: number): void;
  remove(): void;
}

export function makeClockShim(): ClockShim {
  const compiler = findProgram({ title: 'A C compiler', binary: 'gcc', packages: ['gcc', 'libc6-dev'] });
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-clock-'));
  // Some servers run as another user.
  chmodSync(dir, 0o755);
  const [source, library, file] = [join(dir, 'shim.c'), join(dir, 'shim.so'), join(dir, 'offset')];
  writeFileSync(source, SOURCE);
  execFileSync(compiler, ['-shared', '-fPIC', '-O1', '-o', library, source]);
  writeFileSync(file, Buffer.alloc(8));
  return {
    env: { LD_PRELOAD: library, HOLDFAST_CLOCK_FILE: file },
    set(seconds) {
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(BigInt(seconds));
      // In place: the server has mapped this file.
      const descriptor = openSync(file, 'r+');
      writeSync(descriptor, bytes, 0, 8, 0);
      closeSync(descriptor);
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}
