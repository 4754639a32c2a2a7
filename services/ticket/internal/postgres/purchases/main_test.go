package purchases_test

import (
	"testing"

	"urr.guru/pkg/testkit"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }
