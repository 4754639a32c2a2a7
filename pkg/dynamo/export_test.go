package dynamo

// EnsureTablePausing is EnsureTable with another maximum pause between attempts to enable recovery.
var EnsureTablePausing = ensureTable
