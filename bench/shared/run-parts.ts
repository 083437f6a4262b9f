/** The parts of a bench by name. Each gets the URL of a server. */
export type Parts = Readonly<Record<string, (url: string) => Promise<void>>>;

/** Runs the parts that the command line names, or all of them. */
export async function runParts(parts: Parts, urlFor: () => Promise<string> | string): Promise<void> {
  const wanted = process.argv.slice(2);
  for (const [name, run] of Object.entries(parts)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.log(`\n${name}`);
    await run(await urlFor());
  }
}
