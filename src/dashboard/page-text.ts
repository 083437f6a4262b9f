/** What `scripts/dashboard-page.mjs` makes. */
export interface PageText {
  /** The version of the package. */
  readonly version: string;
  readonly script: string;
  /** Changes with the text. */
  readonly scriptTag: string;
  readonly style: string;
  readonly styleTag: string;
}

/** Put before this module by the build, and defined for the tests. */
declare const HOLDFAST_DASHBOARD_PAGE: PageText | undefined;

/** The bundled page; `null` when the sources are run without the build. */
export function pageText(): PageText | null {
  return typeof HOLDFAST_DASHBOARD_PAGE === 'object' ? HOLDFAST_DASHBOARD_PAGE : null;
}
