/**
 * An array in PostgreSQL's text format, because client libraries write arrays differently. A quoted
 * number is a number too, where the server expects one.
 */
export function arrayOf(values: readonly (string | number | null)[]): string {
  const texts = values.map((each) =>
    typeof each === 'string' ? `"${each.replace(/["\\]/g, '\\$&')}"` : `${each}`,
  );
  return `{${texts.join()}}`;
}
