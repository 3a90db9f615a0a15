// The page: it reads its report and draws it. Names and texts come from others and are text nodes, all of them.
import { render } from 'preact';
import { App } from './app.js';
import { loadReport } from './sources.js';
import { isPrinted, keepAddress, readAddress } from './state.js';

readAddress();
window.addEventListener('hashchange', readAddress);
/** What a print opened, to be closed again. */
let opened: HTMLDetailsElement[] = [];
window.addEventListener('beforeprint', () => {
  opened = [...document.querySelectorAll<HTMLDetailsElement>('details:not([open])')];
  for (const details of opened) details.open = true;
  isPrinted.value = true;
});
window.addEventListener('afterprint', () => {
  for (const details of opened) details.open = false;
  isPrinted.value = false;
});
const root = document.getElementById('page') as HTMLElement;
root.replaceChildren();
render(<App />, root);
keepAddress();
void loadReport();
