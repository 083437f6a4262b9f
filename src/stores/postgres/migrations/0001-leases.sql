-- Which of these files have been applied. Each of them is run once, in order, in one transaction.
CREATE TABLE holdfast.migrations (
  id integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
