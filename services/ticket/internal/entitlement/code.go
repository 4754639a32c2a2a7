package entitlement

import (
	"context"
	"crypto/rand"
	"strings"

	"urr.guru/services/ticket/internal/claim"
)

const (
	// alphabet has no letters that look like digits or like each other (Crockford's base 32).
	alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// codeLength is the length of a code without hyphens: 100 random bits.
	codeLength = 20
	// groupLength is how many characters stand between two hyphens.
	groupLength = 5
)

// MakeCodes makes a batch of codes with the EventID, CodeList, Count and Uses of b. It returns the
// batch and the codes, and stores only the hashes of the codes.
func (s *Service) MakeCodes(ctx context.Context, b Batch) (made Batch, codes []string, err error) {
	codes = make([]string, b.Count)
	hashes := make([][]byte, b.Count)
	for i := range codes {
		codes[i] = newCode()
		hashes[i] = codeHash(codes[i])
	}
	made, err = s.Store.MakeCodes(ctx, b, hashes)
	return made, codes, err
}

// UseCode gives a user the entitlement of a code.
func (s *Service) UseCode(ctx context.Context, eventID, userID, code string) error {
	if _, err := s.events.Event(ctx, eventID); err != nil {
		return err
	}
	return s.Store.UseCode(ctx, eventID, userID, codeHash(code))
}

func newCode() string {
	random := make([]byte, codeLength)
	_, _ = rand.Read(random) // never fails
	var code strings.Builder
	for i, b := range random {
		if i > 0 && i%groupLength == 0 {
			code.WriteByte('-')
		}
		code.WriteByte(alphabet[int(b)%len(alphabet)]) // 256 is a multiple of its length
	}
	return code.String()
}

// typingErrors replaces characters that people mistype, and removes separators.
var typingErrors = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1") //nolint:gochecknoglobals // a constant table

// codeHash returns the stored hash of a code, which a person may have typed. A hash without a key
// is enough, since nobody can try 2^100 codes.
func codeHash(code string) []byte { return claim.Hash(typingErrors.Replace(strings.ToUpper(code))) }
