package web

// These are unexported names that the tests use.
var (
	NewFrom    = newPages
	Catalogues = loadCatalogues
	Names      = pageNames
)
