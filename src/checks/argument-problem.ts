// An error about an argument -> what is wrong with it: for whoever tells of it under another name, such as an option's.
import type { ArgumentError } from './errors.js';

/** The message without the name of the argument, with which it begins. */
export function argumentProblem({ argument, message }: ArgumentError): string {
  return message.slice(`${argument}: `.length);
}
