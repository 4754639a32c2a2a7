package edge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"time"

	"urr.guru/pkg/errs"
)

// uploadReadTimeout is the time-out of each read of an upload. It replaces the server's.
const uploadReadTimeout = 30 * time.Second

// Upload is a body that is read and hashed part by part, up to MaxUpload bytes.
type Upload struct {
	body    io.Reader
	control *http.ResponseController
	sum     hash.Hash
	read    bool // any byte
}

// NewUpload makes the Upload of a request.
func NewUpload(w http.ResponseWriter, r *http.Request) *Upload {
	return &Upload{body: http.MaxBytesReader(w, r.Body, MaxUpload), control: http.NewResponseController(w), sum: sha256.New()}
}

func (u *Upload) Read(p []byte) (int, error) {
	end := time.Now().Add(uploadReadTimeout)
	if err := errors.Join(u.control.SetReadDeadline(end), u.control.SetWriteDeadline(end.Add(uploadReadTimeout))); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := u.body.Read(p)
	u.sum.Write(p[:n])
	u.read = u.read || n > 0
	return n, err
}

// Drain reads what the handler has left of the body, so that the digest is that of all of it. It
// stops where the body breaks off or is too long, and when ctx ends.
func (u *Upload) Drain(ctx context.Context) {
	part := make([]byte, 32<<10)
	for ctx.Err() == nil {
		if _, err := u.Read(part); err != nil {
			return
		}
	}
}

// SHA256 returns the digest of the bytes that were read, in hex; "" if there were none.
func (u *Upload) SHA256() string {
	if !u.read {
		return ""
	}
	return hex.EncodeToString(u.sum.Sum(nil))
}

// BodyError returns the error of a request whose body could not be read: BODY_TOO_LARGE beyond the
// limit of its http.MaxBytesReader, else INVALID_REQUEST.
func BodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errs.ErrBodyTooLarge
	}
	return errs.ErrInvalidRequest.Wrap(err).WithFields(errs.Field{Message: "the body could not be read"})
}
