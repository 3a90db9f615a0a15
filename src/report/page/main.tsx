// The page: it reads its report and draws it. Names and texts come from others and are text nodes, all of them.
import { render } from 'preact';
import { App } from './app.js';
import { loadReport } from './sources.js';
import { isPrinted, keepAddress, readAddress } from './state.js';

readAddress();
window.addEventListener('hashchange', readAddress);
window.addEventListener('beforeprint', () => {
  isPrinted.value = true;
});
window.addEventListener('afterprint', () => {
  isPrinted.value = false;
});
const root = document.getElementById('page') as HTMLElement;
root.replaceChildren();
render(<App />, root);
keepAddress();
void loadReport();
