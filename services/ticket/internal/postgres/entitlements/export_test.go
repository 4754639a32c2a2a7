package entitlements

import (
	"context"
	"time"
)

// PrunePart is one transaction of Prune.
func (s *Store) PrunePart(ctx context.Context, retention time.Duration) (more bool, err error) {
	return s.prunePart(ctx, retention)
}
