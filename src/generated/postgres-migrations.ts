// Made by scripts/embed.mjs from src/stores/postgres/migrations. Do not edit.

export const migrations = [
  {
    id: 1,
    name: '0001-leases',
    text: '-- Which of these files have been applied. Each of them is run once, in order, in one transaction.\nCREATE TABLE holdfast.migrations (\n  id integer PRIMARY KEY,\n  name text NOT NULL,\n  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()\n);\n',
  },
] as const;
