import { render } from 'preact';
import { App } from './app.tsx';
import { LiveList } from './data/live-list.ts';
import { LiveContext } from './data/use-live.ts';
import './style/page.css';

const list = new LiveList();
list.connect();
list.followVisibility();

render(
  <LiveContext.Provider value={list}>
    <App />
  </LiveContext.Provider>,
  document.getElementById('app') ?? document.body,
);
