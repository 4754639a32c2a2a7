package web

// What the tests see besides the package's face.
var (
	NewFrom    = newPages
	Catalogues = loadCatalogues
	Names      = names
)

// SessionCookie is looked at for its presence.
const SessionCookie = sessionCookie
