package web

// Unexported names for the tests.
var (
	NewFrom    = newPages
	Catalogues = loadCatalogues
	Names      = pageNames
)
