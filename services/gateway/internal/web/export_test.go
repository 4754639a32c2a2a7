package web

// Unexported names for the tests.
var (
	NewFrom    = newPages
	Catalogues = loadCatalogues
	Names      = pageNames
)

// SessionCookie is the cookie whose presence selects the variant of a page.
const SessionCookie = sessionCookie
