/* What a ledger says: losses by learning rate and width, and whether the best value transfers. */
#ifndef CLI_SWEEP_SHOW_H
#define CLI_SWEEP_SHOW_H

/* Prints it; json: also to this file, or NULL. Returns the exit status. */
int cli_show_sweep(const char *path, const char *json);

#endif
