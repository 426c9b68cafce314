module keyrack.example/shop

go 1.19
