// Exit statuses of commands.

export const EXIT = {
  ok: 0,
  /** Some files failed, or nothing was found, or this installation does not work. The rest was done. */
  failures: 1,
  /** The command line makes no sense. */
  usage: 2,
  /** A verdict that `--fail-on` names holds at the last step of a run. */
  alarm: 3,
} as const;
