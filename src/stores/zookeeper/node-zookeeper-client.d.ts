/** What is used of a package that brings no types. */
declare module 'node-zookeeper-client' {
  const library: {
    createClient(address: string, options?: object): unknown;
    readonly ACL: {
      readonly CREATOR_ALL_ACL: readonly object[];
      readonly OPEN_ACL_UNSAFE: readonly object[];
    };
  };
  export default library;
}
