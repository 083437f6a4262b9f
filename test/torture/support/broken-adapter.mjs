export default async () => {
  throw new Error('nothing is here');
};
