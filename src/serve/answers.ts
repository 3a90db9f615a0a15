// Answers of the sidecar: one line of JSON each.

import { ArgumentError, CollapsarError, DeviceError } from '../checks/errors.js';
import { argumentProblem } from '../checks/words.js';
import type { PlainJson } from './plain-json.js';

/** Version of the protocol. It rises when a client that knows the one before would misread an answer. */
export const PROTOCOL = 1;

export type RequestId = number | string;

/** A line that is not a request, or a request that cannot be taken as things are. */
export class ProtocolError extends Error {
  readonly code = 'ERR_PROTOCOL';
}

export interface AnswerError {
  readonly code: string;
  readonly message: string;
  /** Which part of the request is wrong. */
  readonly argument?: string;
}

/** `id` is null if the line has none that could be read. */
export function answerLine(id: RequestId | null, answer: Readonly<Record<string, PlainJson>>): string {
  return `${JSON.stringify({ id, ...answer })}\n`;
}

export function errorLine(id: RequestId | null, error: unknown): string {
  return `${JSON.stringify({ id, error: describeError(error) })}\n`;
}

function describeError(error: unknown): AnswerError {
  if (error instanceof ArgumentError) {
    return { code: error.code, message: argumentProblem(error), argument: error.argument };
  }
  if (error instanceof DeviceError) return { code: error.code, message: error.message, argument: error.reason };
  if (error instanceof CollapsarError || error instanceof ProtocolError) {
    return { code: error.code, message: error.message };
  }
  return { code: 'ERR_INTERNAL', message: error instanceof Error ? error.message : String(error) };
}
