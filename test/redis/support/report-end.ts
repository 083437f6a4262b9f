/** Prints that the program is done, and whether it ends soon after that or what keeps it alive. */
export function reportEnd(): void {
  process.stdout.write('done');
  const startedMs = performance.now();
  setTimeout(() => {
    process.stdout.write(` and kept alive by ${process.getActiveResourcesInfo().join(' ')}`);
    process.exit(1);
  }, 10_000).unref();
  process.on('exit', () => {
    // The shortest timer that could keep it alive is one of five seconds.
    if (performance.now() - startedMs < 4_000) process.stdout.write(' and ended');
  });
}
