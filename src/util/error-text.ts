/**
 * The message of an error. The error of a connection that was tried at several addresses has no
 * message itself, only its parts have.
 */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message !== '') return error.message;
  const parts: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return parts.map(errorText).join(', ') || String((error as { code?: unknown }).code ?? error.name);
}
