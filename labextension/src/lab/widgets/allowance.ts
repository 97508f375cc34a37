/** Allows an amount per second, and as much as several seconds' at once. */
export class Allowance {
  constructor(
    private readonly perSecond: number,
    private readonly most: number,
    private readonly now: () => number = () => performance.now()
  ) {
    this.left = most;
    this.since = now();
  }

  /** Takes an amount; returns whether it was allowed. */
  take(amount: number): boolean {
    const now = this.now();
    this.left = Math.min(this.most, this.left + ((now - this.since) / 1000) * this.perSecond);
    this.since = now;
    this.left -= amount;
    return this.left >= 0;
  }

  private left: number;
  private since: number;
}
