// A folder or a pattern in which a search found nothing of what it looks for: another search may find what it looks for
// there.
import { FileError } from '../../checks/errors.js';

export class NothingFoundError extends FileError {}
