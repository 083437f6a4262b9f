import { Schema } from '../stores/postgres/schema.ts';

/** Prints what an empty database needs, as one transaction. */
export async function migrations(schema: string): Promise<number> {
  const { script } = new Schema(schema);
  await new Promise<void>((resolve) => process.stdout.write(script, () => resolve()));
  return 0;
}
