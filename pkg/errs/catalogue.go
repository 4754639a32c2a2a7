package errs

import "slices"

// The catalogue has every stable code of the HTTP API with its kind and its English sentence (the
// member `error` of a problem document). Codes of every request are in codes_request.go, the others
// in the file of the service that owns them. Codes and sentences are a contract with clients: a
// code is never renamed or given another meaning. A domain names its errors by aliasing these (var
// ErrSoldOut = errs.ErrSoldOut).
var catalogue []*Error //nolint:gochecknoglobals // filled by declare while the package is initialized

func declare(kind Kind, reason, message string) *Error {
	e := New(kind, reason, message)
	catalogue = append(catalogue, e)
	return e
}

// Catalogue lists every code.
func Catalogue() []*Error { return slices.Clone(catalogue) }

// Lookup finds a code of the catalogue.
func Lookup(reason string) (*Error, bool) {
	for _, e := range catalogue {
		if e.Reason == reason {
			return e, true
		}
	}
	return nil, false
}
