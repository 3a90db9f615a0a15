// Every error that collapsar throws on purpose. `code` is stable; `message` names what came, what was expected and what to do.

export type ErrorCode =
  | 'ERR_ARGUMENT' // an argument of a call: wrong type, shape, range
  | 'ERR_DISPOSED' // the engine was disposed
  | 'ERR_ADDON' // the native addon is missing or cannot be loaded
  | 'ERR_DEVICE' // the device asked for cannot be had
  | 'ERR_FILE' // a file cannot be read or written, or is not what it claims to be
  | 'ERR_STATE' // a saved state is foreign, damaged or of another version
  | 'ERR_CLUSTER'; // an engine that was asked to run tasks (Slurm, Ray) did not

/** Base of all errors of this package; test with `instanceof` or by `code`. */
export class CollapsarError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** A bad argument. `argument` is its name as the caller wrote it, for example `options.own`. */
export class ArgumentError extends CollapsarError {
  readonly argument: string;

  constructor(argument: string, problem: string, options?: ErrorOptions) {
    super('ERR_ARGUMENT', `${argument}: ${problem}`, options);
    this.argument = argument;
  }
}

/** Where in a file something is wrong. `offset` counts bytes from the start of the file. */
export interface FileLocation {
  path: string;
  offset?: number;
  tensor?: string;
}

/** A file that cannot be used: unreadable, truncated, malformed, or with values that cannot be right. */
export class FileError extends CollapsarError {
  readonly path: string;
  readonly offset: number | undefined;
  readonly tensor: string | undefined;

  constructor(where: FileLocation, problem: string, options?: ErrorOptions) {
    const parts = [where.path];
    if (where.tensor !== undefined) parts.push(`tensor "${where.tensor}"`);
    if (where.offset !== undefined) parts.push(`offset ${where.offset}`);
    super('ERR_FILE', `${parts.join(', ')}: ${problem}`, options);
    this.path = where.path;
    this.offset = where.offset;
    this.tensor = where.tensor;
  }
}

/** A call on an engine that was disposed. */
export class DisposedError extends CollapsarError {
  constructor(what: string) {
    super('ERR_DISPOSED', `${what}: the engine was disposed; open a new one with openEngine()`);
  }
}

/** The native addon is not there or does not load. */
export class AddonError extends CollapsarError {
  constructor(message: string, options?: ErrorOptions) {
    super('ERR_ADDON', message, options);
  }
}

/** A device was asked for by name and cannot be had. */
export class DeviceError extends CollapsarError {
  constructor(message: string, options?: ErrorOptions) {
    super('ERR_DEVICE', message, options);
  }
}

/** A saved state that this version cannot continue from. */
export class StateError extends CollapsarError {
  constructor(message: string, options?: ErrorOptions) {
    super('ERR_STATE', message, options);
  }
}

/** An engine that tasks were submitted to refused them, lost them, or is not there. */
export class ClusterError extends CollapsarError {
  constructor(message: string, options?: ErrorOptions) {
    super('ERR_CLUSTER', message, options);
  }
}
