package roomtest_test

import (
	"testing"
	"time"

	"urr.guru/services/vwr/internal/room/roomtest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	m := roomtest.NewMemory(time.Now)
	roomtest.Suite(t, func(*testing.T) roomtest.Store { return m })
}
