const IDS_MAX = 10_000;

/** The ids of claims that were added last. The oldest is forgotten, so that the set has a bound. */
export class RecentIds extends Set<string> {
  override add(id: string): this {
    super.add(id);
    const [oldest] = this.size > IDS_MAX ? this : [];
    if (oldest !== undefined) this.delete(oldest);
    return this;
  }
}
