// Every error that collapsar throws on purpose. `code` is stable; `message` names what came, what was expected and what
// to do.

/** What kind of error it is: stable from version to version. */
export type ErrorCode =
  | 'ERR_ARGUMENT' // an argument of a call: wrong type, shape, range
  | 'ERR_DISPOSED' // the engine or the device tensor was disposed
  | 'ERR_ADDON' // the native addon is missing or cannot be loaded
  | 'ERR_DEVICE' // the device asked for cannot be had, or failed
  | 'ERR_FILE' // a file cannot be read or written, or is not what it claims to be
  | 'ERR_STATE' // a saved state is foreign, damaged or of another version
  | 'ERR_SCORING' // an inference engine refuses, or answers what cannot be right
  | 'ERR_CLUSTER'; // an engine that was asked to run tasks (Slurm, Ray) did not

/** Base of all errors of this package; test with `instanceof` or by `code`. */
export class CollapsarError extends Error {
  /** What kind of error it is. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** A bad argument. `argument` is its name as the caller wrote it, for example `options.own`. */
export class ArgumentError extends CollapsarError {
  /** Its name as the caller wrote it. */
  readonly argument: string;
  /** What is wrong, without the name: `message` has both. */
  readonly problem: string;

  constructor(argument: string, problem: string, options?: ErrorOptions) {
    super('ERR_ARGUMENT', `${argument}: ${problem}`, options);
    this.argument = argument;
    this.problem = problem;
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
  /** As it was given, or found. */
  readonly path: string;
  /** Bytes from the start of the file. */
  readonly offset: number | undefined;
  /** Name of the tensor. */
  readonly tensor: string | undefined;
  /** What is wrong, without where: `message` has both. */
  readonly problem: string;

  constructor(where: FileLocation, problem: string, options?: ErrorOptions) {
    const parts = [where.path];
    if (where.tensor !== undefined) parts.push(`tensor "${where.tensor}"`);
    if (where.offset !== undefined) parts.push(`offset ${where.offset}`);
    super('ERR_FILE', `${parts.join(', ')}: ${problem}`, options);
    this.path = where.path;
    this.offset = where.offset;
    this.tensor = where.tensor;
    this.problem = problem;
  }
}

/** A call on an engine that was disposed, or with a device tensor that was. */
export class DisposedError extends CollapsarError {
  constructor(what: string, problem = 'the engine was disposed; open a new one with openEngine()') {
    super('ERR_DISPOSED', `${what}: ${problem}`);
  }
}

/** The native addon is not there or does not load. */
export class AddonError extends CollapsarError {
  constructor(message: string, options?: ErrorOptions) {
    super('ERR_ADDON', message, options);
  }
}

/** Why a device cannot be had, or what it failed with. */
export type DeviceProblem =
  | 'not_built' // there is no CUDA backend beside the addon, or at the path given
  | 'not_loadable' // the backend is not a usable library: foreign, damaged, of another version
  | 'crashed' // the backend brought down the process that tried it
  | 'timeout' // the backend did not answer within the time limit
  | 'no_driver'
  | 'driver_too_old'
  | 'no_device'
  | 'bad_device' // there is no device of that number, or collapsar has no kernels for it
  | 'out_of_memory' // of the device or the machine; see askedBytes and freeBytes. The engine stays usable
  | 'bad_handle' // an IPC handle that the driver does not accept
  | 'device_lost' // the device failed for good; only a new process can use it again
  | 'failed'; // anything else

/** What a DeviceError knows beside its message. */
export interface DeviceErrorOptions extends ErrorOptions {
  reason?: DeviceProblem | undefined;
  askedBytes?: number | undefined;
  freeBytes?: number | undefined;
}

/** A device cannot be had, or failed at work. `reason` is for programs, `message` says what to do next. */
export class DeviceError extends CollapsarError {
  /** What is wrong, for programs. */
  readonly reason: DeviceProblem;
  /** With `out_of_memory`: the bytes asked for. */
  readonly askedBytes: number | undefined;
  /** With `out_of_memory` of a GPU: the bytes that were free. */
  readonly freeBytes: number | undefined;

  constructor(message: string, options: DeviceErrorOptions = {}) {
    super('ERR_DEVICE', message, options);
    this.reason = options.reason ?? 'failed';
    this.askedBytes = options.askedBytes;
    this.freeBytes = options.freeBytes;
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
