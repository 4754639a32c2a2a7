package dynamo

// EnsureTablePausing is EnsureTable with the longest pause between two tries to turn the recovery
// on.
var EnsureTablePausing = ensureTable
