package edge

import (
	"errors"
	"net/http"

	"urr.guru/pkg/errs"
)

// BodyError returns the error of a request whose body could not be read: BODY_TOO_LARGE beyond the
// limit of its http.MaxBytesReader, else INVALID_REQUEST.
func BodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errs.ErrBodyTooLarge
	}
	return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Message: "the body could not be read"})
}
