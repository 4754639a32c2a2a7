package errs

import "slices"

// catalogue contains every stable code of the HTTP API with its kind and its English sentence (the
// field `error` of a problem document). Codes that any request may get are in codes_request.go, all
// other codes in the file of their service. Codes and sentences are a contract with clients: a code
// is never renamed or given another meaning. Domain packages use aliases (var ErrSoldOut =
// errs.ErrSoldOut).
var catalogue []*Error //nolint:gochecknoglobals // filled by declare while the package is initialized

func declare(kind Kind, code, sentence string) *Error {
	e := New(kind, code, sentence)
	catalogue = append(catalogue, e)
	return e
}

// Catalogue returns the error of every code.
func Catalogue() []*Error { return slices.Clone(catalogue) }

// Lookup finds a code of the catalogue.
func Lookup(code string) (*Error, bool) {
	for _, e := range catalogue {
		if e.Reason == code {
			return e, true
		}
	}
	return nil, false
}
