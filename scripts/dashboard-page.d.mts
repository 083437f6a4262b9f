export declare const PAGE_NAME: string;
export declare function dashboardPage(): {
  version: string;
  script: string;
  scriptTag: string;
  style: string;
  styleTag: string;
};
