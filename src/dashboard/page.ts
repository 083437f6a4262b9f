import { answer, RefusedError } from './answers.ts';
import { pageText } from './page-text.ts';

const HTML = 'text/html; charset=utf-8';
/** The names of the assets change with their texts. */
const FOR_EVER = 'private, max-age=31536000, immutable';

/** `base` has no character with a meaning in HTML. */
export function pageHtml(base: string): Response {
  const page = pageText();
  if (page === null)
    throw new RefusedError(503, 'no-page', 'The page needs the built package, not its sources.');
  const html = `<!doctype html>
<html lang="en" data-base="${base}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Holdfast</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${base}/assets/page-${page.styleTag}.css">
<script type="module" src="${base}/assets/page-${page.scriptTag}.js"></script>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript. The data is also at ${base}/api/locks, as JSON.</noscript>
</body>
</html>
`;
  return answer(html, HTML);
}

/** The script or the style of the page. */
export function pageAsset(name: string, request: Request): Response {
  const page = pageText();
  const [text, type, tag] =
    name === `page-${page?.scriptTag}.js`
      ? [page?.script, 'text/javascript; charset=utf-8', page?.scriptTag]
      : name === `page-${page?.styleTag}.css`
        ? [page?.style, 'text/css; charset=utf-8', page?.styleTag]
        : [];
  if (text === undefined || type === undefined) throw new RefusedError(404, 'not-found', 'No such asset.');
  const headers = { 'cache-control': FOR_EVER, etag: `"${tag}"` };
  if (request.headers.get('if-none-match') === headers.etag)
    return answer(null, type, { status: 304, headers });
  return answer(text, type, { headers });
}

export function packageVersion(): string {
  return pageText()?.version ?? 'unknown';
}
