// Package schema has the migrations of the figures, their inbox and their offsets. These tables
// have a database schema of their own, which can be dropped to count everything anew.
package schema

import (
	"embed"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
)

//go:embed migrations/*.sql
var files embed.FS

// Name of the schema.
const Name = "figures"

// Migrations create the schema's tables.
var Migrations = []postgres.MigrationSet{
	{Name: Name, Schema: Name, FS: files},
	{Name: inbox.Migrations.Name, Schema: Name, FS: inbox.Migrations.FS},
}
