export const NAME: string;
export function threadProgram(): string;
