import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { type Live, LiveList } from './live-list.ts';

export const LiveContext = createContext<LiveList>(new LiveList());

/** The list of locks and the state of its connection. Renders at most once a frame. */
export function useLive(): Live {
  const list = useContext(LiveContext);
  const [live, setLive] = useState(list.current);
  useEffect(() => {
    setLive(list.current);
    return list.onChange(setLive);
  }, [list]);
  return live;
}
