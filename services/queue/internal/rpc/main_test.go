package rpc_test

import (
	"testing"

	"urr.guru/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
