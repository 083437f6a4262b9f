/** The URLs of all stores that are reached over the network, each with its server at this address. */
export const networkUrls = (host: string): string[] => [
  `redis://${host}`,
  `redis+cluster://${host}`,
  `redis+sentinel://${host}/main`,
  `redlock://${host}`,
  `postgres://u@${host}/x`,
  `postgres://u@${host}/x?mode=advisory`,
  `mysql://u@${host}/x`,
  `etcd://${host}`,
  `zookeeper://${host}`,
];
